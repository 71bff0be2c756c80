"""From a user's files to batches: readers, tokenisers, known public sets, embedded defaults."""
