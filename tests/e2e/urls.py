"""No URLs: the processes of the end-to-end tests serve none."""

urlpatterns: list[object] = []
