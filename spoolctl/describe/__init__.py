"""The contract as documents, all made from the specs, the shapes and the tables of `contract/`."""
