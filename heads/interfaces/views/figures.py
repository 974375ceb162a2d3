"""The name by which the page knows `charts` until it asks for that; then this file goes."""

from heads.interfaces.views.charts import Chart as Chart
from heads.interfaces.views.charts import Tile as Tile
from heads.interfaces.views.charts import forest as forest
from heads.interfaces.views.charts import heat_map as heat_map
from heads.interfaces.views.charts import live_heat as tiled

__all__ = ["Chart", "Tile", "forest", "heat_map", "tiled"]
