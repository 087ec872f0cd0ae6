"""What was seen of one cluster: facts, and the pure parsers from raw JSON to them. No I/O, no judgement."""
