"""The page."""

from heads.settings import use_storage

use_storage()  # before Gradio, which brings the Hub's client
