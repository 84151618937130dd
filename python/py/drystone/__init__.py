"""Files in a Drystone hub."""
