"""Models that several devices run together: split over a mesh, and each device's values evaluated."""
