"""Real clients at our door and at the native one: they must not notice which it is."""
