"""What an evaluation file may say."""
