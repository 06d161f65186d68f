"""What pipes share: :mod:`oneflow.utils.data.datapipes.utils.common`."""
