"""The config file as frozen values, read once and checked whole."""
