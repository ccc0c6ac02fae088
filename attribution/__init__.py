"""Recovery: why a training job died, where, whether to retry and without which node."""

__version__ = "0.1.0"
