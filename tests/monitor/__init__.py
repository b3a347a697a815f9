"""Tests of the writer of points and of the dashboards, against real InfluxDB and VictoriaMetrics processes."""
