"""What `highlights()` returns, and its forms: tables, HTML, marked text, links, prompts and text in a terminal."""
