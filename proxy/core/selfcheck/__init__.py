"""The permissions of the proxy's own accounts, and denials that concern them."""
