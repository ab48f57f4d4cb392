"""Control objects and Lance tables; every table write is staged before it is committed."""
