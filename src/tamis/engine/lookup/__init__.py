"""What a value fires: thresholds, points, texts."""
