"""A fake shop: what a host project has and tells its customers about."""
