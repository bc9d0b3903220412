#!/usr/bin/env python3
"""Writes the synthetic trace beside this file: four minutes of a service with a changing rate, and some bursts of
requests.

  make_trace.py > trace.csv
"""
import math
import random

random.seed(7)
print("# A synthetic request trace, made by make_trace.py: a slow swing, and crowds of requests at once.")
print("arrival_us")
at = 0.0
while at < 240e6:
    rate = 8 * (1 + 0.7 * math.sin(2 * math.pi * at / 120e6))  # a second
    at += random.expovariate(rate) * 1e6
    for _ in range(random.choice([1] * 19 + [12])):
        print(f"{at:.0f}")
        at += random.expovariate(200) * 1e6
