"""A call: its options, its checked request, and the signatures that its functions share."""
