"""Results where they are looked at with Python: fragments of HTML, figures of Plotly's, files."""

from heads.interfaces.notebook.fragments import html as html
from heads.interfaces.notebook.pictures import figure as figure
