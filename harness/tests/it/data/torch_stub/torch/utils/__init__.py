from . import data, flop_counter
