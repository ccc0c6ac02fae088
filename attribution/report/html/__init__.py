"""The report for a browser: one HTML file that needs nothing else, no network and no script."""

from attribution.report.html.page import attempt_report, store_report

__all__ = ["attempt_report", "store_report"]
