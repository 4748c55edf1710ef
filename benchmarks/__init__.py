"""What a step costs: our system beside a hand-written Temporal workflow, on one server, in one run."""
