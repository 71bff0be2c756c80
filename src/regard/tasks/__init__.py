"""What an example is, how it is batched, the loss, the metric, how to decode: one file a task."""
