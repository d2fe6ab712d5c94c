"""The model that needs no key: fixed rules over the tools it is given. It is no language model, and says so."""
