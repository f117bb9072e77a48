"""From tables and labels as people have them to models, by scikit-learn's interface."""
