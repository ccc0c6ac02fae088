"""Live mode: follow the logs of running jobs with the engine that analyses finished ones."""
