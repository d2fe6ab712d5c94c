"""Tools of the tests, named in the settings as a user names a package of their own."""
