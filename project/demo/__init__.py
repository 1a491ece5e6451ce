"""The demo: the whole product on one screen, from this checkout alone."""
