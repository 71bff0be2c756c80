"""Pictures of where a model looked."""
