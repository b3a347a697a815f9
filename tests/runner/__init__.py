"""The test runner: it decides which tests run together, notices tests that hang, and says what happened.

`plan` has the stages, `plugin` runs inside every pytest process and records what happens there, `stage` follows these
records and ends what hangs, `processes` finds what the tests left behind, `results` judges and reports, and `session`
runs the stages in order. CONTRIBUTING.md says how to use it.
"""
