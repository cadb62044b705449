"""The colours of series in charts: each can be seen on white and in dark mode, with a contrast of three or more."""

SCHEME = "opscope_series"
COLOURS = ["#1787A8", "#7A83C4", "#2E9C66", "#E0662A", "#808080", "#E04355"]
COLOURS += ["#A17E00", "#A868B7", "#12908F", "#A0805C", "#3F87D9", "#C75A9A"]
"""As many as a legend has entries, in the order of Superset's own."""
