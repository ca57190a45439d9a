"""Commands of federations of neural networks: `fl`."""
