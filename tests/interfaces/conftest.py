from page_fixtures import chrome, few, look, page_url, place, tab  # noqa: F401
from shell_runs import file, trained  # noqa: F401
