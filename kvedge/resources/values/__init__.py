"""Values that documents hold as text: numbers, quantities, durations, addresses and names. Nothing of any kind."""
