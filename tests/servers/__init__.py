"""Servers and emulators on 127.0.0.1 that the tests of tools talk to, each started once in a test process."""
