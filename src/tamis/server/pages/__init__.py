"""The pages that a person sees in a browser: made by the server, alive with a little script."""
