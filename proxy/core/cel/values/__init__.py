"""Values at run time: equality, order, arithmetic and conversion."""
