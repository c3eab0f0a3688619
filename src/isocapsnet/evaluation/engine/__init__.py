"""What runs jobs: the runner, executors, workers with one child process each, and their limits."""
