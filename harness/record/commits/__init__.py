"""The commits that a run is about: what git and the CI system say of the folder that is tested."""
