# SPDX-License-Identifier: BSD-3-Clause
"""Hostile input, kills, long runs and large files: ``python -m fuzzing --help``.

Whatever the library reads is made by a small grammar, damaged, and read in a child process that
may be killed. An input is right if it is used, or refused by an error of ours in one line, within
a budget of memory and of processor time; anything else is a finding, and is made again from its
seed and its number. Kills stop training and ``pairlearn stream`` at random moments; the model that
they end with after all must be that of an undisturbed run, byte for byte. Long runs and large
files must take no more memory than short and small ones.
"""
