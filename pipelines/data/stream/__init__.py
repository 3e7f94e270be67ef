"""Rows that stay on disk: folders of images and Parquet tables larger than memory.

``streamed_rows`` defines which rows there are, and their order in an epoch; ``image_rows`` and
``tables`` read them; ``cache`` keeps them, decoded or prepared, on the local disk of a host;
``row_feed`` runs processes that fill it ahead of the rank that trains.
"""
