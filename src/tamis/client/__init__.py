"""Agents: publish and subscribe from Python, with asyncio or without."""

from tamis.client.agent import Agent, Messages
from tamis.client.async_agent import AsyncAgent
from tamis.client.received import Lost, Received, Subscribed

__all__ = ["Agent", "AsyncAgent", "Lost", "Messages", "Received", "Subscribed"]
