"""Models: choosing one, the cache of the Hugging Face Hub and downloads into it, old weights, and encoders from Python."""
