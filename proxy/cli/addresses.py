"""Addresses on the command line."""

import argparse

from proxy.settings.values import read_address, read_server


def listen_address(text: str) -> tuple[str, int]:
    """Return the two halves of ADDRESS:PORT."""
    try:
        return read_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def server_address(text: str) -> tuple[str, int]:
    """Return host and port of https://HOST[:PORT]."""
    try:
        return read_server(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def server_url(text: str) -> str:
    """Return a URL as it is, if it is https://HOST[:PORT]."""
    server_address(text)
    return text.rstrip("/")
