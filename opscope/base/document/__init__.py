"""What there is to say of a run, a night, a cause or an op, as one tree of plain data; and how a terminal and Markdown
show it (an HTML page: reports/pages/assets/document.html.j2)."""
