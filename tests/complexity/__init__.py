"""What a request costs in time and memory, measured at growing sizes (`make complexity`)."""
