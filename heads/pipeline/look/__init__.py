"""What a trained head looks at, and what it says if one thing is changed."""
