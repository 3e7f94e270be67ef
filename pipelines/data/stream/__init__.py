"""Rows that stay on disk: folders of images and Parquet tables larger than memory.

``rows`` says which rows there are, and in what order an epoch shows them; ``images`` and ``tables``
read them; ``cache`` keeps them, decoded or prepared, on the local disk of a host; ``feed`` has
processes fill it ahead of the rank that trains.
"""
