"""Links to other routers: sockets, disk and rights around `tamis.pubsub.links`."""
