"""How the page looks: theme, style sheet and the few lines of script that it needs."""

from pathlib import Path

from gradio.themes import Base
from gradio.themes.utils.fonts import LocalFont

# Only weights 400 and 700: of the fonts that Gradio carries, these alone hold all letters.
THEME = Base(
    primary_hue="indigo",
    neutral_hue="zinc",
    radius_size="lg",
    font=[LocalFont("IBM Plex Sans", weights=(400, 700)), "system-ui", "sans-serif"],
    font_mono=[LocalFont("IBM Plex Mono", weights=(400, 700)), "monospace"],
).set(
    body_background_fill="#fafafa",
    body_background_fill_dark="#0f0f11",
    body_text_color_subdued="*neutral_600",
    body_text_color_subdued_dark="*neutral_400",
    block_border_width="1px",
    block_title_text_weight="700",
    block_title_text_color="*body_text_color",
    block_title_text_color_dark="*body_text_color",
    block_info_text_color="*neutral_600",
    block_info_text_color_dark="*neutral_400",
    block_label_text_weight="700",
    input_background_fill="white",
    input_border_width="1px",
    input_border_color="*neutral_300",
    input_border_color_dark="*neutral_600",
    button_primary_background_fill="*primary_600",
    button_primary_background_fill_hover="*primary_700",
    button_primary_background_fill_dark="*primary_600",
    button_primary_text_color="white",
    button_primary_text_color_dark="white",
    button_large_text_weight="700",
    button_medium_text_weight="700",
    button_small_text_weight="400",
)

HERE = Path(__file__).parent
# Charts, tables and heads are drawn alike on the page and in the report.
VIEWS = HERE.parent / "views"
SHEETS = (HERE / "page.css", VIEWS / "board.css")
CSS = "\n".join(sheet.read_text("utf-8") for sheet in SHEETS)
# Gradio keeps a style sheet to its own container, but Plotly measures texts outside of it.
NARROW = "@media (max-width: 860px) { tspan[style*='letter-spacing'] { display: none; } }"
HEAD = f"<style>{NARROW}</style><script>{(HERE / 'page.js').read_text('utf-8')}</script>"
