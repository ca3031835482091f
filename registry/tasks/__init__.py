"""Tasks that workers lease. `service` is what other rooms use; `orders` knows what each kind is for."""
