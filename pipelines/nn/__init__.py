"""Neural networks: shapes, training in stacks, augmentation, features; arrays in, arrays out."""
