"""Finished calls on storage, so that a run resumes and is replayed."""
