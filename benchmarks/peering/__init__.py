"""What benchmarks/peers.py gives to voicesim and to its peers, and how each is asked.

work: the requests and the step law, the same for all.  answers: figures from one row a request.
meter: CPU seconds and memory.  ours, dynamo, sr_sim: the simulators, each a function from work to
figures.  points: AIConfigurator against a roofline.  blis: a recorded run of BLIS, played anew.
"""
